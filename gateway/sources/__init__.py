"""Where policies come from over the network, and what is kept of them on the disk for when it is away."""

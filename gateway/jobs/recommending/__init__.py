"""Recommendations: what the roll-ups say of policies, each as a change to a pack that is ready to be made."""

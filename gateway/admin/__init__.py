"""What operators and their tools ask the gateway over HTTP: whether it lives and is ready, and its figures;
below `ranger` Ranger's REST API, below `lineage` questions to the graph, in `tag_proposals` those of tags."""

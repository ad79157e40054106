"""What can exist: the graph language, its keys, its spaces and its static checks. Standard library only."""

"""The prefix tree; of the core it knows the Model protocol alone."""

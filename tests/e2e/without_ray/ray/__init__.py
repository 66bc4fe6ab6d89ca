"""In the place of Ray: whoever imports it fails."""

raise ImportError("Ray is not to be imported here")

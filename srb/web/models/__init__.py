"""Several models as web workers see them: their states, the model of each request, and the events about them."""

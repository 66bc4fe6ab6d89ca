"""KoboldAI and KoboldCpp."""

"""`srb doctor`: facts about this machine, llama.cpp and the model, and findings: faults and slow spots, with the remedy."""

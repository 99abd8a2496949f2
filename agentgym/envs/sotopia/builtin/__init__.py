"""Built-in scenarios: private values, binding moves, scripted partners, a judge by rule, an optimum."""

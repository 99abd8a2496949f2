"""Language agents: scaffolds over a chat model, with the templates, tools and readers of training."""

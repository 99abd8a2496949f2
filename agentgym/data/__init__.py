"""Where data live on this machine, and how official data get there."""

"""How attention graphs run and train: the only part of attnbench that needs torch and timm."""

"""What the measurements mean: rank statistics, seed noise, regret, main effects and plots. Frames in, frames out."""

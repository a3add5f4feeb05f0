"""RGB and control videos to VAE latents and text embeddings, one .pt a sample."""

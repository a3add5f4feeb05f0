"""RGB + control videos -> VAE latents and text embeddings, one .pt a sample. Only this library imports torch."""

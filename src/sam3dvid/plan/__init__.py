"""What a clip shall show, decided before a pixel is rendered: objects, poses, cameras, light, background."""

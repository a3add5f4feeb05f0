"""The colours that objects have in pictures and control videos."""

PALETTE = ((230, 159, 0), (86, 180, 233), (0, 158, 115), (204, 121, 167))
"""Of objects 1 to 4, told apart by colour-blind eyes too. Source: Okabe and Ito 2008."""

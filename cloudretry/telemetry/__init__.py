"""What is told to others than the program itself: listeners that write or send."""

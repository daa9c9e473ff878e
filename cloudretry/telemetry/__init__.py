"""What is told to others than the program itself: listeners that write or send. Imported by name, when they are wanted."""

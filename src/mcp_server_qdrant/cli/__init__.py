"""Commands. Only this room prints and exits; the work itself is in rooms that servers use too."""

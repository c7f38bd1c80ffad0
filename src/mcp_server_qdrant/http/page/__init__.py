"""The page /viz and the app in the chat: files and calls, which return only what tools return."""

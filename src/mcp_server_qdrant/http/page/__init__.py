"""The page /viz and the app in the chat: their calls and files; answers only what a tool could."""

"""The routes of the HTTP API, a file for each subject. Each knows the frontend and nothing of the engine behind it."""

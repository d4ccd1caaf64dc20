"""Running workflow code without I/O: history in, commands out; no clock, socket, file, thread or chance is ever touched here."""

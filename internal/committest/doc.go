// Package committest loses the server's word. A proxy between the program and
// PostgreSQL cuts the connection when the server has committed and says so: the
// caller cannot know whether it happened. Asked again, every operation must
// answer as if the first answer had come, and nothing may be there twice.
package committest

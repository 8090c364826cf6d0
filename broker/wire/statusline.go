package wire

import "net/http"

// maxPrefix is how much of a line is kept: "HTTP/1.1 422" and what separates the reason.
const maxPrefix = len("HTTP/1.1 422") + 1

// statusLine finds the final status line in the bytes of an answer as they arrive. It
// skips interim answers and stops at the first line that it does not understand.
// It keeps a few bytes, however long the answer is.
type statusLine struct {
	code    int  // of the final status line, zero until its newline was read
	over    bool // nothing more is looked at
	interim bool // within the header of an interim answer
	prefix  [maxPrefix]byte
	length  int // of the prefix
}

// feed takes the next bytes.
func (s *statusLine) feed(p []byte) {
	for _, b := range p {
		switch {
		case s.over:
			return
		case b == '\n':
			s.endLine()
		case s.length < maxPrefix:
			s.prefix[s.length] = b
			s.length++
		}
	}
}

// endLine judges a line when its newline is there.
func (s *statusLine) endLine() {
	line := s.prefix[:s.length]
	s.length = 0
	if s.interim {
		s.interim = len(line) > 0 && string(line) != "\r"
		return
	}
	code := parseStatus(line)
	if code >= 100 && code < 200 && code != http.StatusSwitchingProtocols {
		s.interim = true
		return
	}
	s.code, s.over = code, true
}

// parseStatus reads the beginning of a status line of HTTP/1; zero if it is none.
func parseStatus(line []byte) int {
	const version, code = len("HTTP/1."), len("HTTP/1.1 ")
	if len(line) < maxPrefix-1 || string(line[:version]) != "HTTP/1." || !digits(string(line[version:version+1])) {
		return 0
	}
	if line[code-1] != ' ' || !digits(string(line[code:code+3])) {
		return 0
	}
	if len(line) == maxPrefix && line[maxPrefix-1] != ' ' && line[maxPrefix-1] != '\r' {
		return 0
	}
	return 100*int(line[code]-'0') + 10*int(line[code+1]-'0') + int(line[code+2]-'0')
}

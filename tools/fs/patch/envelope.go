package patch

// isEnvelope is true for the apply_patch format.
func (p *parser) isEnvelope() bool { return false }

func (p *parser) envelope() ([]File, error) { return nil, nil }

// This file lets hooks.go declare functions without bodies.

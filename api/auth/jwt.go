package auth

// tokenPrefix begins the key id of who comes with a provider's token.
const tokenPrefix = "jwt:"

//! The parameters of a backend's request that decide what is run, for whom and how it is read: no configuration sets them.
//!
//! Pure data; used where `env` of a backend is checked, and where parameters are put together.

/// Whether a parameter is for the server alone to set.
pub fn is_protected(name: &str) -> bool {
    PROTECTED.contains(&name)
}

/// In alphabetical order. `SERVER_NAME`, `SERVER_SOFTWARE` and the like are not among them: an administrator may say otherwise.
pub const PROTECTED: [&str; 29] = [
    "AUTH_TYPE",
    "CONTENT_LENGTH",
    "CONTENT_TYPE",
    "DOCUMENT_ROOT",
    "GATEWAY_INTERFACE",
    "HTTPS",
    // A client's `Proxy` field, for programs that take it for the address of a proxy (CVE-2016-5385).
    "HTTP_PROXY",
    "PATH_INFO",
    "PATH_TRANSLATED",
    "QUERY_STRING",
    "REDIRECT_STATUS",
    "REMOTE_ADDR",
    "REMOTE_PORT",
    "REMOTE_USER",
    "REQUEST_METHOD",
    "REQUEST_SCHEME",
    "REQUEST_URI",
    "SCGI",
    "SCRIPT_FILENAME",
    "SCRIPT_NAME",
    "SERVER_PORT",
    "SERVER_PROTOCOL",
    "SSL_CIPHER",
    "SSL_CLIENT_I_DN",
    "SSL_CLIENT_M_SERIAL",
    "SSL_CLIENT_S_DN",
    "SSL_CLIENT_VERIFY",
    "SSL_PROTOCOL",
    "SSL_TLS_SNI",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_decides_is_protected_and_the_rest_is_not() {
        assert!(PROTECTED.is_sorted());
        assert!(is_protected("SCRIPT_FILENAME") && is_protected("HTTP_PROXY") && is_protected("HTTPS"));
        assert!(!is_protected("PHP_VALUE") && !is_protected("HTTP_X_SITE") && !is_protected("SERVER_NAME") && !is_protected("https"));
    }
}

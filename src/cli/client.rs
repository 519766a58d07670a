//! The commands' end of the control socket.

use crate::ipc::control::{self, Order, PACKET_MAX};
use crate::sys::socket;
use std::path::Path;

/// Sends an order and waits for the whole answer.
///
/// # Errors
/// What the service answered to an order that it could not carry out, or why it could not be asked.
pub(super) fn ask(path: &Path, order: Order) -> Result<String, String> {
    let fault = |fault: std::io::Error| format!("no service runs: connect \"{}\": {fault}", path.display());
    let connection = socket::connect_local(path).map_err(fault)?;
    socket::send_packet(&connection, &order.encode()).map_err(fault)?;
    let (mut text, mut packet) = (Vec::new(), vec![0; PACKET_MAX]);
    loop {
        let length = socket::receive_packet(&connection, &mut packet).map_err(|fault| format!("\"{}\": {fault}", path.display()))?;
        if length == 0 {
            return Err(format!(
                "\"{}\": the service ended the connection without an answer",
                path.display()
            ));
        }
        if let Some(done) = control::take(packet.get(..length).unwrap_or_default(), &mut text) {
            let text = String::from_utf8_lossy(&text).into_owned();
            return if done { Ok(text) } else { Err(text) };
        }
    }
}

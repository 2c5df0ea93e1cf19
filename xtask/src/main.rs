//! `cargo xtask`: the checks that hold the project to its own rules.

fn main() {
    println!("usage: cargo xtask tidy|wasm");
}

//! Stage pace under abuse, through engine, page cache and disk in virtual time.
mod checked;
mod disk;
mod random;
mod scenarios;
mod world;

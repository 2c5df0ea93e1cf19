//! A picture as PNG, for what does not show SVG.

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree};

/// Pixels of the PNG per unit of the SVG: sharp on a screen of today.
const SCALE: f32 = 2.0;

/// Draws an SVG into a PNG.
///
/// # Errors
/// The system has no font to draw its words with, or the SVG is none.
pub fn png(svg: &str) -> Result<Vec<u8>, String> {
    let mut options = Options::default();
    options.fontdb_mut().load_system_fonts();
    let family = options
        .fontdb
        .faces()
        .find_map(|face| face.families.first().map(|(name, _)| name.clone()))
        .ok_or("there is no font on this system to draw a PNG with: install fonts-dejavu-core")?;
    let has_sans = options
        .fontdb
        .faces()
        .any(|face| face.families.iter().any(|(name, _)| name == "DejaVu Sans"));
    let sans = if has_sans { "DejaVu Sans".to_owned() } else { family };
    options.fontdb_mut().set_sans_serif_family(&sans);
    options.font_family = sans;
    let tree = Tree::from_str(svg, &options).map_err(|error| error.to_string())?;
    let size = tree.size().to_int_size();
    let (width, height) = (size.width() * SCALE as u32, size.height() * SCALE as u32);
    let mut pixels = Pixmap::new(width, height).ok_or("the picture is empty")?;
    resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut pixels.as_mut());
    pixels.encode_png().map_err(|error| error.to_string())
}

#[derive(Default)]
pub struct Tape;
impl Tape {
    pub fn pass(&mut self, _y: &mut [f64]) {}
}

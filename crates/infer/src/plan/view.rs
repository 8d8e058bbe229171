//! How a tensor lies in the arena while a plan is compiled: transposing, slicing and reshaping move no numbers, they
//! only change the view. Nothing of this is left at run time.

/// A run of `size` elements, `stride` apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Atom {
    pub(super) size: usize,
    pub(super) stride: usize,
}

/// A tensor in the arena. Each dimension is a list of atoms, outermost first: a transposed matrix that is then
/// flattened is one dimension of two atoms, and still nobody has moved a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct View {
    pub(super) at: usize,
    pub(super) dims: Vec<Vec<Atom>>,
}

impl View {
    /// Row-major.
    pub(super) fn dense(at: usize, shape: &[usize]) -> Self {
        let mut stride = shape.iter().product();
        let dims = shape
            .iter()
            .map(|&size| {
                stride /= size;
                vec![Atom { size, stride }]
            })
            .collect();
        Self { at, dims }
    }

    pub(super) fn shape(&self) -> Vec<usize> {
        self.dims.iter().map(|atoms| volume(atoms)).collect()
    }

    pub(super) fn volume(&self) -> usize {
        self.dims.iter().map(|atoms| volume(atoms)).product()
    }

    /// Its atoms in row-major order, those of one element left out and those that follow on each other merged.
    pub(super) fn atoms(&self) -> Vec<Atom> {
        merged(self.dims.iter().flatten().copied())
    }

    /// Where each element lies, in row-major order.
    pub(super) fn places(&self) -> Vec<usize> {
        let mut places = vec![self.at];
        for atom in self.atoms() {
            places = places
                .iter()
                .flat_map(|&place| (0..atom.size).map(move |i| place + i * atom.stride))
                .collect();
        }
        places
    }

    /// Whether the elements lie in row-major order without gaps.
    pub(super) fn is_dense(&self) -> bool {
        match self.atoms()[..] {
            [] => true,
            [atom] => atom.stride == 1,
            _ => false,
        }
    }

    /// The same elements in another shape, if no number has to move for it.
    pub(super) fn reshaped(&self, shape: &[usize]) -> Option<Self> {
        let mut rest: Vec<Atom> = self.atoms();
        rest.reverse();
        let mut dims = Vec::with_capacity(shape.len());
        for &size in shape {
            let mut dim = Vec::new();
            let mut left = size;
            while left > 1 {
                let atom = rest.pop()?;
                if left % atom.size == 0 {
                    left /= atom.size;
                    dim.push(atom);
                } else if atom.size % left == 0 {
                    let inner = atom.size / left;
                    dim.push(Atom {
                        size: left,
                        stride: atom.stride * inner,
                    });
                    rest.push(Atom {
                        size: inner,
                        stride: atom.stride,
                    });
                    left = 1;
                } else {
                    return None;
                }
            }
            dims.push(dim);
        }
        rest.is_empty().then_some(Self { at: self.at, dims })
    }

    /// `from..to` along an axis, if the axis is in one piece.
    pub(super) fn sliced(&self, axis: usize, from: usize, to: usize) -> Option<Self> {
        let mut out = self.clone();
        match merged(self.dims[axis].iter().copied())[..] {
            [] => {}
            [atom] => {
                out.at += from * atom.stride;
                out.dims[axis] = vec![Atom {
                    size: to - from,
                    stride: atom.stride,
                }];
            }
            _ => return None,
        }
        Some(out)
    }

    /// `size` elements, `step` apart, along an axis that is in one piece.
    pub(super) fn every(mut self, axis: usize, size: usize, step: usize) -> Self {
        for atom in &mut self.dims[axis] {
            *atom = Atom {
                size,
                stride: atom.stride * step,
            };
        }
        self
    }

    /// The axes in another order: axis `i` of the result is axis `order[i]`.
    pub(super) fn permuted(&self, order: &[usize]) -> Self {
        Self {
            at: self.at,
            dims: order.iter().map(|&axis| self.dims[axis].clone()).collect(),
        }
    }
}

fn volume(atoms: &[Atom]) -> usize {
    atoms.iter().map(|atom| atom.size).product()
}

/// Atoms of one element left out, neighbours that follow on each other made one.
pub(super) fn merged(atoms: impl Iterator<Item = Atom>) -> Vec<Atom> {
    let mut out: Vec<Atom> = Vec::new();
    for atom in atoms.filter(|atom| atom.size != 1) {
        match out.last_mut() {
            Some(outer) if outer.stride == atom.stride * atom.size => {
                outer.size *= atom.size;
                outer.stride = atom.stride;
            }
            _ => out.push(atom),
        }
    }
    out
}

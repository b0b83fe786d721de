//! What kernels need, read from the ELF file that NVRTC makes: no device is asked.
//!
//! The section `.nv.info` lists attributes of functions, each as a byte of its format, a byte of
//! its kind, the number of bytes, the symbol and a number. Those used here have kept their numbers
//! since the first versions of CUDA with ELF (`cuobjdump -elf` prints them by name).

use std::collections::BTreeMap;

/// The attribute with the number of registers, `EIATTR_REGCOUNT`.
const REGISTER_COUNT: u8 = 0x2f;

/// The attribute with the bytes of the stack, `EIATTR_FRAME_SIZE`.
const FRAME_SIZE: u8 = 0x11;

/// The format of attributes with a value of several bytes, `EIFMT_SVAL`.
const SIZED: u8 = 4;

/// What a kernel needs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct KernelResources {
    /// Registers of a thread.
    pub(crate) registers: u32,
    /// Bytes of shared memory of a block.
    pub(crate) shared_bytes: u64,
    /// Bytes of local memory of a thread.
    pub(crate) local_bytes: u32,
}

/// A section of an ELF file.
struct Section<'a> {
    name: &'a str,
    link: usize,
    bytes: u64,
    content: &'a [u8],
}

fn number<const N: usize>(file: &[u8], at: usize) -> Option<u64> {
    let bytes = file.get(at..at.checked_add(N)?)?;
    Some(bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte)))
}

fn place<const N: usize>(file: &[u8], at: usize) -> Option<usize> {
    number::<N>(file, at).and_then(|number| usize::try_from(number).ok())
}

fn text(table: &[u8], at: usize) -> Option<&str> {
    let text = table.get(at..)?.split(|&byte| byte == 0).next()?;
    str::from_utf8(text).ok()
}

/// The sections of a little-endian ELF file of 64 bits.
fn sections(file: &[u8]) -> Option<Vec<Section<'_>>> {
    file.starts_with(b"\x7fELF\x02\x01").then_some(())?;
    let (table, entry) = (place::<8>(file, 40)?, place::<2>(file, 58)?);
    let (count, names) = (place::<2>(file, 60)?, place::<2>(file, 62)?);
    let head = |section: usize| table.checked_add(section.checked_mul(entry)?);
    let content = |section: usize| {
        let head = head(section)?;
        let (kind, start) = (number::<4>(file, head + 4)?, place::<8>(file, head + 24)?);
        // A section of zeros has no bytes in the file.
        let bytes = if kind == 8 { 0 } else { place::<8>(file, head + 32)? };
        file.get(start..start.checked_add(bytes)?)
    };
    let names = content(names)?;
    let section = |section: usize| {
        let head = head(section)?;
        Some(Section {
            name: text(names, place::<4>(file, head)?)?,
            link: place::<4>(file, head + 40)?,
            bytes: number::<8>(file, head + 32)?,
            content: content(section)?,
        })
    };
    (0..count).map(section).collect()
}

/// Returns what each kernel of an ELF file needs; none if it is of another form.
pub(crate) fn needs(file: &[u8]) -> Option<BTreeMap<String, KernelResources>> {
    let sections = sections(file)?;
    let mut needs = BTreeMap::<String, KernelResources>::new();
    let symbols = sections.iter().find(|section| section.name == ".symtab")?;
    let names = sections.get(symbols.link)?.content;
    let symbol = |at: usize| text(names, place::<4>(symbols.content, at.checked_mul(24)?)?);
    let info = sections.iter().find(|section| section.name == ".nv.info")?;
    let mut rest = info.content;
    while let [format, kind, size @ ..] = rest
        && !size.is_empty()
    {
        let size = place::<2>(size, 0)?;
        let bytes = if *format == SIZED { size } else { 0 };
        let value = rest.get(4..4 + bytes)?;
        rest = &rest[4 + bytes..];
        if *format != SIZED || ![REGISTER_COUNT, FRAME_SIZE].contains(kind) {
            continue;
        }
        let name = symbol(place::<4>(value, 0)?)?.to_owned();
        let count = u32::try_from(number::<4>(value, 4)?).ok()?;
        let of_kernel = needs.entry(name).or_default();
        match *kind {
            REGISTER_COUNT => of_kernel.registers = count,
            _ => of_kernel.local_bytes = count,
        }
    }
    for section in &sections {
        if let Some(kernel) = section.name.strip_prefix(".nv.shared.")
            && let Some(of_kernel) = needs.get_mut(kernel)
        {
            of_kernel.shared_bytes = section.bytes;
        }
    }
    Some(needs)
}

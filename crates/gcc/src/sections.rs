//! The sections of an object.

use object::elf::{SHF_ALLOC, SHF_EXECINSTR, SHF_WRITE};
use object::read::File;
use object::{Object as _, ObjectSection as _, SectionFlags};

/// Returns the size of code and of data that is only read, in bytes, as the column `text` of
/// `llvm-size`: of all sections that are loaded, those that hold instructions, and those that are
/// not written. Tables for unwinding the stack are among them. `None` if the object is no ELF file.
pub fn text_size(object: &[u8]) -> Option<i64> {
    let file = File::parse(object).ok()?;
    let is_text = |flags: u64| {
        let has = |flag: u32| flags & u64::from(flag) != 0;
        has(SHF_ALLOC) && (has(SHF_EXECINSTR) || !has(SHF_WRITE))
    };
    let sizes = file.sections().filter_map(|section| match section.flags() {
        SectionFlags::Elf { sh_flags } if is_text(sh_flags) => Some(section.size()),
        _ => None,
    });
    i64::try_from(sizes.sum::<u64>()).ok()
}

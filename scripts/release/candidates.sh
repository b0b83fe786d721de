# shellcheck shell=bash
# Sourced by release.sh: the programs that a release chooses from. Writes their URIs into the file
# `$1`, one a line. Without a network, Debian's are left out.
#
# A file named by PROGRAMS replaces this list: a URI, a range or a glob a line.

# The libraries of these packages, without their tests, tools and examples, are under licences that
# allow passing on with a notice. The licence of each file is looked up again once it is recorded.
debian_libraries=(
    'brotli/c/dec/*' 'brotli/c/enc/*' 'bzip2/*' 'cjson/*' 'expat/expat/lib/*' 'flac/src/libFLAC/*'
    'giflib/*' 'hiredis/*' 'http-parser/*' 'jansson/src/*' 'libb2/src/*' 'libdeflate/lib/**'
    'libpng1.6/*' 'libtomcrypt/src/ciphers/*' 'libtomcrypt/src/hashes/*' 'libuv1/src/unix/*'
    'libwebp/src/dec/*' 'libwebp/src/enc/*' 'libyaml/src/*' 'libzstd/lib/compress/*' 'lz4/lib/*'
    'mbedtls/library/*' 'opus/silk/*' 'tre/lib/*' 'utf8proc/*' 'xxhash/*'
    'xz-utils/src/liblzma/common/*' 'xz-utils/src/liblzma/simple/*' 'yajl/src/*' 'zlib/*'
)

candidates() { # file
    if [[ -n ${PROGRAMS:-} ]]; then
        local given
        mapfile -t given < <(grep --invert-match --extended-regexp '^(#|$)' "$PROGRAMS")
        steplake datasets benchmarks "${given[@]}" >"$1.part"
    else
        steplake datasets benchmarks 'benchmark://steplake-v0/*' 'generator://csmith-v0/0..127' \
            >"$1.part"
        debian_candidates "$1.said" >>"$1.part"
    fi
    sort --unique "$1.part" >"$1.sorted"
    mv "$1.sorted" "$1"
    rm "$1.part"
}

debian_candidates() { # file for what is said
    local library status
    for library in "${debian_libraries[@]}"; do
        status=0
        steplake --quiet datasets benchmarks "benchmark://debian-v0/$library/**/*.c" 2>"$1" || status=$?
        case $status in
            0) ;;
            5) # One wait for a network that does not answer is enough.
                say "Going on without $library and what follows: without a network, Debian's" \
                    "packages cannot be fetched."
                return ;;
            *) say "Going on without $library: $(tail --lines=1 "$1")" ;;
        esac
    done
}

# shellcheck shell=bash
# Sourced by the demo and the million: about twenty benchmarks of all kinds.
# Sets `benchmarks`. Without a network, Debian's are left out.

benchmarks=('generator://csmith-v0/0..3')
for name in blocked_matmul fourier introsort json_reader keyed_hash shortest_paths text_search window_compressor; do
    benchmarks+=("benchmark://steplake-v0/$name")
done
debian_reached=yes
debian() { # package file...
    if [[ $debian_reached == no ]]; then return; fi
    local uris=("${@:2}") status=0
    uris=("${uris[@]/#/benchmark://debian-v0/$1/}")
    steplake datasets install "${uris[@]}" || status=$?
    case $status in
        0) benchmarks+=("${uris[@]}") ;;
        5) # One wait for a network that does not answer is enough.
            debian_reached=no
            say "Going on without $1 and further Debian packages: without a network, they cannot be fetched." ;;
        *) say "Going on without $1." ;;
    esac
}
debian zlib adler32.c inflate.c trees.c
debian bzip2 blocksort.c decompress.c huffman.c
debian lz4 lib/lz4frame.c lib/xxhash.c

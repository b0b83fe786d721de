-- The programs of a release: under a licence that allows passing on with at most a notice, neither
-- tiny nor huge, each once, and no more than twelve of a family, so that no package outweighs the
-- others. Generated programs are all of one family.
WITH allowed AS (
  SELECT *, row_number() OVER (PARTITION BY initial_state_id ORDER BY benchmark_uri) AS copy
  FROM benchmarks
  WHERE "IrInstructionCountO0" BETWEEN 50 AND 10000
    AND licence IN (
      'Apache-2.0', 'BSD-2-Clause', 'BSD-3-Clause', 'BSD-3-Clause OR GPL-2.0-only', 'CC0-1.0',
      'ISC', 'MIT', 'Unlicense', 'Zlib',
      -- As Debian names them: of bzip2, of libpng, of xz-utils and of libtomcrypt.
      'LicenseRef-BSD-variant', 'LicenseRef-libpng', 'LicenseRef-PD',
      'LicenseRef-public-domain OR LicenseRef-WTFPL-2'
    )
), ranked AS (
  SELECT *, row_number() OVER (PARTITION BY family ORDER BY program_digest) AS place
  FROM allowed
  WHERE copy = 1
)
SELECT benchmark_uri
FROM ranked
WHERE place <= CASE family WHEN 'csmith' THEN 100 ELSE 12 END
ORDER BY benchmark_uri

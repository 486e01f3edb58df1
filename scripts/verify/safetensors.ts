/**
 * Compares the safetensors codec with the reference implementation on fresh files, both ways: `npm
 * run verify -- safetensors`, with PEERS_VENV set to the peers' virtual environment. Exits with 1
 * if they disagree.
 */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { orThrow } from '@tandem-rl/base'
import fc from 'fast-check'
import { decodeSafetensors, encodeSafetensors } from '../../src/data/codecs/safetensors.js'
import { isKnownDifference, mutated } from '../../test/kit/mutations.js'
import { anyStoredArrays } from '../../test/kit/storedArrays.js'

const venv = process.env.PEERS_VENV
if (venv === undefined) {
  console.error('set PEERS_VENV to a virtual environment with safetensors and torch')
  process.exit(2)
}
const FILES = 300
const MUTANTS = 3000
const seed = Number(process.env.FC_SEED ?? 20261121)

const folder = mkdtempSync(join(tmpdir(), 'tandem-check-'))
try {
  const originals = fc.sample(anyStoredArrays, { seed, numRuns: FILES }).map((arrays) => encodeSafetensors(arrays))
  const mutants = mutated(originals, { seed, count: MUTANTS })
  for (const [i, bytes] of [...originals, ...mutants].entries()) writeFileSync(join(folder, `${i}.in`), bytes)
  const answer = execFileSync(
    join(venv, 'bin/python'),
    ['scripts/verify/peers/safetensors.py', folder, String(FILES)],
    {
      encoding: 'utf8',
      maxBuffer: 2 ** 28,
    },
  )
  const verdicts = JSON.parse(answer) as readonly boolean[] // as the script prints them
  const rewritten = originals.filter((bytes, i) => {
    const theirs = readFileSync(join(folder, `${i}.out`))
    const ours = orThrow(decodeSafetensors(theirs))
    return Buffer.compare(theirs, bytes) === 0 && Buffer.compare(encodeSafetensors(ours.arrays), theirs) === 0
  })
  const disagreeing = [...originals, ...mutants].filter((bytes, i) => {
    const result = decodeSafetensors(bytes)
    if ((result._tag === 'Right') === verdicts[i]) return false
    return !(verdicts[i] === true && result._tag === 'Left' && isKnownDifference(result.left.reason))
  })
  const readable = verdicts.slice(FILES).filter((accepted) => accepted).length
  const ok = rewritten.length === FILES && disagreeing.length === 0
  console.log(
    JSON.stringify({
      files: FILES,
      rewrittenEqual: rewritten.length,
      mutants: MUTANTS,
      readable,
      disagreeing: disagreeing.length,
      ok,
    }),
  )
  for (const bytes of disagreeing.slice(0, 3)) console.log(Buffer.from(bytes).toString('base64'))
  if (!ok) process.exitCode = 1
} finally {
  rmSync(folder, { recursive: true, force: true })
}

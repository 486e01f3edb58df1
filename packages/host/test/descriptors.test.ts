/**
 * Started programs inherit no descriptors. Node closes those up to 16 at startup. The shell that
 * starts Node here has others open, as a supervisor may have.
 */
import { spawnSync } from 'node:child_process'
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { compiled } from '../../../test/kit/compiled.js'

const SECRET = 'only for the eyes of this user'

let folder = ''
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'descriptors-'))
  writeFileSync(join(folder, 'secret'), SECRET)
  chmodSync(join(folder, 'secret'), 0o600)
})
afterAll(() => rmSync(folder, { recursive: true }))

/** The output of a program that tries to read and write each of its descriptors. */
const FOUND = `for d in /proc/self/fd/*; do
  case "$(readlink "$d")" in *secret) echo "FOUND $d"; cat "$d"; echo ruined >"$d";; esac
done; echo looked`

const runFromShell = (program: string): string => {
  const secret = join(folder, 'secret')
  const script = `exec 17<>"${secret}" 200<"${secret}"; exec "$@"`
  const { stdout, stderr } = spawnSync(
    'bash',
    ['-c', script, 'bash', process.execPath, compiled('test/kit/startedMain.ts'), program, FOUND],
    { encoding: 'utf8' },
  )
  return stdout + stderr
}

describe('a program that inherits no descriptor', () => {
  it.each(['bubblewrap', 'unsafe-host', 'process', 'conversation'])('%s', (kind) => {
    const said = runFromShell(kind)
    expect(said).toMatch(/^looked$/m)
    expect(said).not.toContain('FOUND')
    expect(said).not.toContain(SECRET)
    expect(readFileSync(join(folder, 'secret'), 'utf8')).toBe(SECRET)
  })
})

/**
 * Run by vitest before and after all tests: the folder for what the processes of the tests compile.
 * A process of tests does many files, and
 * may be killed, so that neither the end of a file nor that of the process is the moment to remove
 * what it compiled.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** The variable of the environment that names the folder. */
export const COMPILED_FOLDERS = 'TANDEM_COMPILED_FOLDERS'

/** Makes the folder, and gives what removes it. Projects of one run share it. */
export const setup = (): (() => void) => {
  const folder = process.env[COMPILED_FOLDERS] ?? mkdtempSync(join(tmpdir(), 'tandem-tests-'))
  process.env[COMPILED_FOLDERS] = folder
  return () => {
    rmSync(folder, { recursive: true, force: true })
  }
}

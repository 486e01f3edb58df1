/**
 * Run by vitest before and after all tests: the folder for what the processes of the tests compile.
 * A process of tests does many files, and may be killed, so that neither the end of a file nor that
 * of the process is the moment to remove what it compiled.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { TestProject } from 'vitest/node'

/** The variable of the environment that names the folder. */
export const COMPILED_FOLDERS = 'TANDEM_COMPILED_FOLDERS'

/** Below the folder of a test run: what its first process that needs it compiles for all. */
export const sharedFolder = (run: string): string => join(run, 'compiled')

/**
 * Makes the folder, and gives what removes it. Projects of one run share it. What was compiled is
 * removed when a watched file has changed.
 */
export const setup = (project: TestProject): (() => void) => {
  const folder = process.env[COMPILED_FOLDERS] ?? mkdtempSync(join(tmpdir(), 'tandem-tests-'))
  process.env[COMPILED_FOLDERS] = folder
  const removed = { recursive: true, force: true }
  project.onTestsRerun(() => rmSync(sharedFolder(folder), removed))
  return () => rmSync(folder, removed)
}

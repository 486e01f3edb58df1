/** Tests with real sandboxes: whether there can be any here, and what they leave behind. */
import { readdirSync, readFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import type { Sandbox, SandboxProgram } from '@tandem-rl/base'
import { type LiveSandboxOptions, liveSandbox } from '@tandem-rl/tools'
import * as E from 'fp-ts/lib/Either.js'
import { describe } from 'vitest'

/** Why a program cannot run in a sandbox here; undefined if it can. */
const lackOf = async (command: string, ...args: readonly string[]): Promise<string | undefined> => {
  const end = await liveSandbox().run({ command, args })()
  if (E.isLeft(end)) return end.left.reason
  return end.right.code === 0 ? undefined : `${command} does not run in the sandbox: ${end.right.stderr.text}`
}

const suiteUnless =
  (lack: string | undefined) =>
  (title: string, body: () => void): void => {
    if (lack === undefined) describe(title, body)
    else describe.skip(`${title} (skipped: ${lack})`, body)
  }

/**
 * A suite that needs bubblewrap. Without it, the suite is skipped, with the reason in its title.
 */
export const describeSandboxed = suiteUnless(await lackOf('true'))

/** A suite that needs bubblewrap, and Python where programs in it look for it. */
export const describeWithPython = suiteUnless(await lackOf('python3', '-c', 'pass'))

/** A sandbox whose programs have a word in their command line, by which they are found. */
export const markedSandbox = (mark: string, options: LiveSandboxOptions = {}): Sandbox => {
  const sandbox = liveSandbox(options)
  const marked = (program: SandboxProgram): SandboxProgram => ({ ...program, args: [...program.args, mark] })
  return {
    ...sandbox,
    run: (program, wait) => sandbox.run(marked(program), wait),
    open: (program) => sandbox.open(marked(program)),
  }
}

const read = (path: string): string => {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return '' // it has ended
  }
}

/**
 * Ids of processes whose command line has this word: a sandbox's first process has all of its
 * command.
 */
export const processesWith = (word: string): readonly string[] =>
  readdirSync('/proc').filter((name) => /^\d+$/.test(name) && read(`/proc/${name}/cmdline`).includes(word))

/** Entries of the temporary folder that a sandbox could have made. */
export const temporaryFolders = (): readonly string[] =>
  readdirSync(tmpdir()).filter((name) => name.startsWith('bubblewrap'))

/**
 * Trust in the recipe files of run folders. A run folder may come from elsewhere, so the file that
 * its config.json names runs only if it belongs to this project, or if the user named it before.
 */
import { existsSync, realpathSync, statSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, extname, join, relative } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { describe } from '@tandem-rl/base'
import { liveDigest, printError } from '@tandem-rl/base/host'
import { isBelow, liveFiles } from '@tandem-rl/host'
import { Option } from 'commander'
import * as E from 'fp-ts/lib/Either.js'
import { CommandError, orFail } from './failure.js'

/** The flag that trusts the recipe file of a run. */
export const TRUST_FLAG = '--trust-recipe'

/** Makes the option of commands that read run folders. */
export const trustOption = (): Option =>
  new Option(TRUST_FLAG, "run the recipe file that the run's config.json names, and remember it")

/** The value of `trustOption`. */
export interface TrustFlags {
  readonly trustRecipe?: true
}

/** Files of programs, as endings that imports may leave out. */
const ENDINGS = ['.ts', '.mts', '.cts', '.tsx', '.js', '.mjs', '.cjs', '.jsx', '.json']

/** Texts in quotes that may be paths of imported files. */
const QUOTED_PATH = /(["'`])((?:\.{0,2}\/|file:)[^"'`\n]*)\1/g

const isFile = (path: string): boolean => existsSync(path) && statSync(path).isFile()

/** Returns the files that an import may load. */
const importable = (from: string, path: string): readonly string[] => {
  const base = pathToFileURL(from).href
  if (!URL.canParse(path, base)) return []
  const url = new URL(path, base)
  if (url.protocol !== 'file:' || url.host !== '' || /%2f|%5c/i.test(url.pathname)) return []
  const target = fileURLToPath(url)
  return [
    ...[target, target.replace(/\.([cm]?)js(x?)$/, '.$1ts$2')],
    ...ENDINGS.flatMap((ending) => [`${target}${ending}`, join(target, `index${ending}`)]),
  ].filter((each) => ENDINGS.includes(extname(each)) && isFile(each))
}

/** The most files of one recipe, without packages. */
const MOST_FILES = 1000

/**
 * Returns the digest of a recipe file and of all files that it imports by path, the same wherever
 * they are.
 */
const digestOf = async (recipe: string): Promise<string> => {
  const texts = new Map<string, string>()
  const waiting = [recipe]
  for (let file = waiting.pop(); file !== undefined; file = waiting.pop()) {
    if (texts.has(file)) continue
    if (texts.size === MOST_FILES)
      throw new CommandError(`the recipe ${recipe} imports more than ${MOST_FILES} files: make a package of them`)
    const text = await orFail(liveFiles.readText(file))
    texts.set(file, text)
    for (const [, , path = ''] of text.matchAll(QUOTED_PATH))
      waiting.push(...importable(file, path).map((each) => realpathSync(each)))
  }
  const placed = [...texts].map(([file, text]) => [
    file === recipe ? '' : relative(dirname(recipe), file),
    liveDigest(text),
  ])
  return liveDigest(JSON.stringify(placed.sort()))
}

/** Returns the digest of a recipe file as an input of its runs. */
export const recipeDigest = (recipe: string): Promise<string> => digestOf(realpathSync(recipe))

/** Returns the file that remembers a recipe file on this machine. */
const recordOf = (recipe: string): string => {
  const state = process.env.XDG_STATE_HOME || join(homedir(), '.local', 'state') // empty counts as missing
  return join(state, 'tandem', 'recipes', `${liveDigest(recipe)}.json`)
}

const contentsOf = (path: string, digest: string): string => `${JSON.stringify({ path, digest })}\n`

/**
 * Remembers a recipe file with its present contents as one that the user has run.
 *
 * Effects  writes a file below XDG_STATE_HOME, or prints a warning if that fails.
 */
export const rememberRecipe = async (recipe: string): Promise<void> => {
  const path = realpathSync(recipe)
  const [file, contents] = [recordOf(path), contentsOf(path, await digestOf(path))]
  const known = await liveFiles.readText(file)()
  if (E.isRight(known) && known.right === contents) return
  await liveFiles.makeFolder(dirname(file))()
  const written = await liveFiles.write(file, contents)()
  if (E.isLeft(written))
    printError(
      `warning: the recipe cannot be remembered, so resuming may need ${TRUST_FLAG}: ${describe(written.left)}\n`,
    )
}

/** The folders above a path, the nearest first. */
const above = (path: string): readonly string[] => {
  const parent = dirname(path)
  return parent === path ? [] : [parent, ...above(parent)]
}

/** Returns the nearest folder with a package.json. The home folder and the root are no projects. */
const projectOf = (folder: string): string | null => {
  const home = existsSync(homedir()) ? realpathSync(homedir()) : homedir()
  const found = [folder, ...above(folder)].find((each) => existsSync(join(each, 'package.json')))
  return found === undefined || found === home || dirname(found) === found ? null : found
}

const isRunFolder = (folder: string): boolean =>
  existsSync(join(folder, 'config.json')) &&
  ['checkpoints', 'metrics.jsonl'].some((name) => existsSync(join(folder, name)))

/**
 * Throws CommandError if the recipe file of a run must not be imported: it is outside of the
 * project of the working folder or inside a run folder, and its contents are not those that the
 * user has run on this machine.
 */
export const checkRunRecipe = async (recipe: string, run: string): Promise<void> => {
  const path = realpathSync(recipe)
  const project = projectOf(realpathSync(process.cwd()))
  const folders = above(path)
  const isOfRun = folders.includes(realpathSync(run)) || folders.some(isRunFolder)
  if (project !== null && isBelow(project, path) && !isOfRun) return
  const known = await liveFiles.readText(recordOf(path))()
  if (E.isRight(known) && known.right === contentsOf(path, await digestOf(path))) return
  const place = isOfRun ? 'inside a run folder' : 'outside of this project'
  const state = E.isRight(known) ? 'has changed since it was run on this machine' : 'was not run on this machine yet'
  throw new CommandError(
    `the run ${run} names the recipe ${path}, which is ${place} and ${state}: read the file, then add ${TRUST_FLAG} to run it`,
  )
}

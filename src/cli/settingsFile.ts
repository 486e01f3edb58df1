/** Files of settings that the user names. */
import { parseJson } from '@tandem-rl/base'
import { liveFiles } from '@tandem-rl/host'
import * as E from 'fp-ts/lib/Either.js'
import { parseYaml } from '../data/codecs/yamlText.js'
import { CommandError, orFail } from './failure.js'

/**
 * Reads a file of JSON, by its name, or YAML. `place` begins the error message, such as
 * `--config a.yaml`.
 *
 * Errors   throws CommandError for a file that cannot be read or parsed.
 */
export const readSettingsFile = async (path: string, place = path): Promise<unknown> => {
  const text = await orFail(liveFiles.readText(path))
  const parsed = path.endsWith('.json') ? parseJson(text) : await parseYaml(text)
  if (E.isLeft(parsed)) throw new CommandError(`${place}: ${parsed.left}`)
  return parsed.right
}

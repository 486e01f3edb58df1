/** The model that comes with Tandem, in the files of a browser. */
import { liveFiles } from '@tandem-rl/host'
import { orThrow } from 'tandem-rl'
import { EMBEDDED_MODEL } from '../src/live/embeddedModel.js'

const FILES = ['config.json', 'model.safetensors', 'tokenizer.json', 'tokenizer_config.json', 'chat_template.jinja']

/**
 * Copies the model from the server, which has it in the folder `model`, unless it is there.
 *
 * Errors   rejects with Error for an answer of the server other than success.
 */
export const fetchModel = async (): Promise<void> => {
  for (const name of FILES) {
    const path = `${EMBEDDED_MODEL}/${name}`
    if (orThrow(await liveFiles.exists(path)())) continue
    const answer = await fetch(`model/${name}`)
    if (!answer.ok) throw new Error(`model/${name}: the server answered with status ${answer.status}`)
    orThrow(await liveFiles.makeFolder(EMBEDDED_MODEL)())
    orThrow(await liveFiles.write(path, new Uint8Array(await answer.arrayBuffer()))())
  }
}

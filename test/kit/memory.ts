/** Memory of this process after a garbage collection. */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void // the flag above defines it

/** Collects garbage, with the turns of the event loop in which native finalizers run. */
export const collectGarbage = async (): Promise<void> => {
  for (let i = 0; i < 4; i++) {
    collect()
    await new Promise((resolve) => setImmediate(resolve))
  }
}

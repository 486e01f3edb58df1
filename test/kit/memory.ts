/** Memory of this process after a garbage collection. */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void // the flag above defines it

/** Frees what nobody can reach, with the turns of the event loop in which finalizers of native values run. */
export const collectGarbage = async (): Promise<void> => {
  for (let i = 0; i < 4; i++) {
    collect()
    await new Promise((resolve) => setImmediate(resolve))
  }
}

/** The values of all doors of the package. */
import { DOORS } from '../../scripts/kit/doors.js'

/** Imports all doors and returns the values of their names. */
export const publicValues = async (): Promise<Readonly<Record<string, unknown>>> => {
  const modules = await Promise.all(
    [...DOORS.values()].map(
      (file): Promise<Readonly<Record<string, unknown>>> => import(/* @vite-ignore */ `../../${file}`),
    ),
  )
  return Object.assign({}, ...modules)
}

import { connection } from 'next/server';
import { Chat } from '../components/Chat';

/** A new chat. Its address is /chat/<id> once it has a message. */
export default async function Page() {
  await connection(); // Each visit gets an id of its own, not one for the whole build.
  return <Chat id={crypto.randomUUID()} isNew chatPath="/chat/" />;
}

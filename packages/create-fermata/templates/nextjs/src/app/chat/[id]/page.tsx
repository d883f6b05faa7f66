import { Chat } from '../../../components/Chat';

export default async function Page({ params }: { params: Promise<{ id: string }> }) {
  const { id } = await params;
  return <Chat key={id} id={id} isNew={false} chatPath="/chat/" />;
}
